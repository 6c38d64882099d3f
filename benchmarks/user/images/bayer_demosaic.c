typedef unsigned char u8;
void kernel(const u8 (*restrict x)[2 * W + 2], u8 (*restrict y)[2 * W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const u8 *a = x[2 * i], *b = x[2 * i + 1], *c = x[2 * i + 2], *d = x[2 * i + 3];
    u8 (*u)[3] = y[2 * i], (*v)[3] = y[2 * i + 1];
    for (int j = 0; j < W; j++) {
      int k = 2 * j + 1, l = k + 1;
      u[2 * j][0] = b[k];
      u[2 * j][1] = (a[k] + c[k] + b[k - 1] + b[k + 1] + 2) >> 2;
      u[2 * j][2] = (a[k - 1] + a[k + 1] + c[k - 1] + c[k + 1] + 2) >> 2;
      u[2 * j + 1][0] = (b[l - 1] + b[l + 1] + 1) >> 1;
      u[2 * j + 1][1] = b[l];
      u[2 * j + 1][2] = (a[l] + c[l] + 1) >> 1;
      v[2 * j][0] = (b[k] + d[k] + 1) >> 1;
      v[2 * j][1] = c[k];
      v[2 * j][2] = (c[k - 1] + c[k + 1] + 1) >> 1;
      v[2 * j + 1][0] = (b[l - 1] + b[l + 1] + d[l - 1] + d[l + 1] + 2) >> 2;
      v[2 * j + 1][1] = (b[l] + d[l] + c[l - 1] + c[l + 1] + 2) >> 2;
      v[2 * j + 1][2] = c[l];
    }
  }
}
