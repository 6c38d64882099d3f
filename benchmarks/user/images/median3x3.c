#define ORDER(a, b) { float low = p[a] < p[b] ? p[a] : p[b], high = p[a] < p[b] ? p[b] : p[a]; p[a] = low; p[b] = high; }
void kernel(const float (*restrict x)[W + 2], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float p[9] = {x[i][j], x[i][j + 1], x[i][j + 2], x[i + 1][j], x[i + 1][j + 1], x[i + 1][j + 2],
                    x[i + 2][j], x[i + 2][j + 1], x[i + 2][j + 2]};
      ORDER(0, 1);
      ORDER(3, 4);
      ORDER(6, 7);
      ORDER(1, 2);
      ORDER(4, 5);
      ORDER(7, 8);
      ORDER(0, 1);
      ORDER(3, 4);
      ORDER(6, 7);
      ORDER(0, 3);
      ORDER(3, 6);
      ORDER(4, 7);
      ORDER(1, 4);
      ORDER(5, 8);
      ORDER(2, 5);
      ORDER(4, 7);
      ORDER(4, 2);
      ORDER(6, 4);
      ORDER(4, 2);
      y[i][j] = p[4];
    }
}
