static float row[H + 8][W + 4], mg[H + 4][W + 4], mx[H + 4][W + 4], gg[H + 4][W + 4], gx[H + 4][W + 4];
static float a[H + 4][W + 4], b[H + 4][W + 4], ma[H][W], mb[H][W];
#define BOX(out, HH, WW, expr) \
  for (int i = 0; i < HH + 4; i++) \
    for (int j = 0; j < WW; j++) { float t = 0; for (int q = 0; q < 5; q++) { int k = j + q; t += expr; } row[i][j] = t; } \
  for (int i = 0; i < HH; i++) \
    for (int j = 0; j < WW; j++) out[i][j] = row[i][j] + row[i + 1][j] + row[i + 2][j] + row[i + 3][j] + row[i + 4][j];
void kernel(const float (*restrict g)[W + 8], const float (*restrict x)[W + 8], float (*restrict y)[W]) {
  BOX(mg, H + 4, W + 4, g[i][k])
  BOX(mx, H + 4, W + 4, x[i][k])
  BOX(gg, H + 4, W + 4, g[i][k] * g[i][k])
  BOX(gx, H + 4, W + 4, g[i][k] * x[i][k])
  for (int i = 0; i < H + 4; i++)
    for (int j = 0; j < W + 4; j++) {
      float p = mg[i][j] / 25, q = mx[i][j] / 25;
      a[i][j] = (gx[i][j] / 25 - p * q) / (gg[i][j] / 25 - p * p + 0.01f);
      b[i][j] = q - a[i][j] * p;
    }
  BOX(ma, H, W, a[i][k])
  BOX(mb, H, W, b[i][k])
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] = (ma[i][j] * g[i + 4][j + 4] + mb[i][j]) / 25;
}
