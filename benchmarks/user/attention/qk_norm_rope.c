#include <math.h>
static void head(const _Float16 *restrict x, const float *restrict w, const float *restrict cosine, const float *restrict sine,
                 _Float16 *restrict y) {
  float sum = 0, v[D];
  for (int c = 0; c < D; c++) v[c] = x[c];
  for (int c = 0; c < D; c++) sum += v[c] * v[c];
  float over = 1 / sqrtf(sum / D + 1e-6f);
  for (int c = 0; c < D; c++) v[c] *= over * w[c];
  for (int c = 0; c < R / 2; c++) {
    float a = v[c], b = v[c + R / 2];
    v[c] = a * cosine[c] - b * sine[c], v[c + R / 2] = b * cosine[c] + a * sine[c];
  }
  for (int c = 0; c < D; c++) y[c] = v[c];
}
void kernel(const _Float16 (*restrict x)[Q + 2 * K][D], const int *restrict place, const float (*restrict cosine)[R / 2],
            const float (*restrict sine)[R / 2], const float *restrict weight_q, const float *restrict weight_k,
            _Float16 (*restrict q_out)[Q][D], _Float16 (*restrict k_out)[K][D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    const float *c = cosine[place[i]], *s = sine[place[i]];
    for (int a = 0; a < Q; a++) head(x[i][a], weight_q, c, s, q_out[i][a]);
    for (int a = 0; a < K; a++) head(x[i][Q + a], weight_k, c, s, k_out[i][a]);
  }
}
