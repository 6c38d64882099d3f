static void row(const float *restrict ua, const float *restrict u, const float *restrict ud, const float *restrict va,
                const float *restrict v, const float *restrict vd, const short *restrict gx, const short *restrict gy,
                const short *restrict gt, float *restrict nu, float *restrict nv) {
#define POINT(j, l, r) { \
    float mu = (ua[j] + ud[j] + u[l] + u[r]) * (1 / 6.f) + (ua[l] + ua[r] + ud[l] + ud[r]) * (1 / 12.f); \
    float mv = (va[j] + vd[j] + v[l] + v[r]) * (1 / 6.f) + (va[l] + va[r] + vd[l] + vd[r]) * (1 / 12.f); \
    float x = gx[j], y = gy[j], p = (x * mu + y * mv + gt[j]) / (x * x + y * y + 100); \
    nu[j] = mu - x * p; \
    nv[j] = mv - y * p; }
  POINT(0, 0, 1)
  for (int j = 1; j < W - 1; j++) POINT(j, j - 1, j + 1)
  POINT(W - 1, W - 2, W - 1)
}
void kernel(const float (*restrict u)[W], const float (*restrict v)[W], const short (*restrict gx)[W], const short (*restrict gy)[W],
            const short (*restrict gt)[W], float (*restrict nu)[W], float (*restrict nv)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    int up = i ? i - 1 : 0, dn = i < H - 1 ? i + 1 : H - 1;
    row(u[up], u[i], u[dn], v[up], v[i], v[dn], gx[i], gy[i], gt[i], nu[i], nv[i]);
  }
}
