{
  const said = document.querySelector("#live");
  const state = () => ({
    open: [...document.querySelectorAll("main details")].map(d => d.open),
    find: document.querySelector("#find")?.value || "",
    inFind: document.activeElement?.id === "find",
    sorted: [...document.querySelectorAll(".all th[aria-sort]")].map(th => th.getAttribute("aria-sort")),
    x: [...document.querySelectorAll("main .scroll, main pre")].map(e => e.scrollLeft),
  });
  const restore = was => {
    document.querySelectorAll("main details").forEach((d, i) => { d.open = was.open[i] || false; });
    const find = document.querySelector("#find");
    if (find && was.find) { find.value = was.find; find.dispatchEvent(new Event("input")); }
    if (find && was.inFind) find.focus();
    document.querySelectorAll(".all th[aria-sort]").forEach((th, i) => {
      for (let n = 0; n < 2 && was.sorted[i] !== "none" && was.sorted[i] && th.getAttribute("aria-sort") !== was.sorted[i]; n++)
        th.querySelector("button").click();
    });
    document.querySelectorAll("main .scroll, main pre").forEach((e, i) => { e.scrollLeft = was.x[i] || 0; });
  };
  let seen = "";
  const look = async () => {
    let now = "ended";
    try {
      const answer = await fetch("/", {headers: {"If-None-Match": seen}, cache: "no-store"});
      now = answer.headers.get("X-Tune-State");
      if (answer.status === 200) {
        seen = answer.headers.get("ETag");
        const next = new DOMParser().parseFromString(await answer.text(), "text/html"), was = state();
        for (const part of ["header", "main", "footer"]) document.querySelector(part).replaceWith(next.querySelector(part));
        wire();
        restore(was);
        window.drawStudies?.();
      }
    } catch { now = "gone"; }
    said.textContent = now === "running" ? "live" : now === "ended" ? "the run has ended; this is its last state" : "tune watch has ended; this is what was last seen";
    if (now === "running") setTimeout(look, document.hidden ? 4000 : 1000);
  };
  look();
}
