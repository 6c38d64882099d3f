// The cases of contraction_cases.py as a good programmer writes them: computed operands decoded once into an array, sums in the
// best order with temporary arrays, and one blocked product for all. Inputs in the order of the kernel, then the output.
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define R restrict
#define PAR _Pragma("omp parallel for")

static float *room(size_t n) { return aligned_alloc(64, (sizeof(float) * n + 63) / 64 * 64); }

// c = a @ b: panels of 32 columns are packed, 4 rows at once
static void product(const float *R a, const float *R b, float *R c, int m, int n, int k) {
  PAR for (int j0 = 0; j0 < n; j0 += 32) {
    int w = n - j0 < 32 ? n - j0 : 32;
    float *p = room(32 * (size_t)k);
    for (int l = 0; l < k; l++) {
      for (int j = 0; j < w; j++) p[l * 32 + j] = b[(size_t)l * n + j0 + j];
      for (int j = w; j < 32; j++) p[l * 32 + j] = 0;
    }
    int i = 0;
    for (; i + 4 <= m; i += 4) {
      float s[4][32];
      memset(s, 0, sizeof s);
      for (int l = 0; l < k; l++)
        for (int r = 0; r < 4; r++) {
          float x = a[(size_t)(i + r) * k + l];
          for (int j = 0; j < 32; j++) s[r][j] += x * p[l * 32 + j];
        }
      for (int r = 0; r < 4; r++)
        for (int j = 0; j < w; j++) c[(size_t)(i + r) * n + j0 + j] = s[r][j];
    }
    for (; i < m; i++) {
      float s[32] = {0};
      for (int l = 0; l < k; l++)
        for (int j = 0; j < 32; j++) s[j] += a[(size_t)i * k + l] * p[l * 32 + j];
      for (int j = 0; j < w; j++) c[(size_t)i * n + j0 + j] = s[j];
    }
    free(p);
  }
}

enum { N = 1024, G = 64 };

void int8_kn(const float *R x, const int8_t *R w, const float *R s, float *R y) {
  float *d = room(N * N);
  PAR for (int l = 0; l < N; l++) for (int j = 0; j < N; j++) d[l * N + j] = (float)w[l * N + j] * s[l / G * N + j];
  product(x, d, y, N, N, N);
  free(d);
}

void int8_nk(const float *R x, const int8_t *R w, const float *R s, float *R y) {
  float *d = room(N * N);
  PAR for (int j0 = 0; j0 < N; j0 += 16) for (int l = 0; l < N; l++) for (int j = j0; j < j0 + 16; j++)
    d[l * N + j] = (float)w[j * N + l] * s[j * (N / G) + l / G];
  product(x, d, y, N, N, N);
  free(d);
}

// with few rows a weight is used in registers; a group is summed up before it is scaled
void int8_few_rows(const float *R x, const int8_t *R w, const float *R s, float *R y) {
  enum { K = 4096 };
  PAR for (int j0 = 0; j0 < K; j0 += 64) {
    float acc[8][64];
    memset(acc, 0, sizeof acc);
    for (int g = 0; g < K / G; g++) {
      float q[8][64];
      memset(q, 0, sizeof q);
      for (int l = g * G; l < g * G + G; l++) {
        float v[64];
        for (int j = 0; j < 64; j++) v[j] = (float)w[(size_t)l * K + j0 + j];
        for (int i = 0; i < 8; i++)
          for (int j = 0; j < 64; j++) q[i][j] += x[i * K + l] * v[j];
      }
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 64; j++) acc[i][j] += q[i][j] * s[g * K + j0 + j];
    }
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 64; j++) y[i * K + j0 + j] = acc[i][j];
  }
}

void int4_kn(const float *R x, const uint8_t *R w, const float *R s, const uint8_t *R z, float *R y) {
  float *d = room(N * N);
  PAR for (int l = 0; l < N; l++) for (int j = 0; j < N; j++)
    d[l * N + j] = (float)(((int)w[l / 2 * N + j] >> (l % 2 * 4) & 15) - (int)z[l / G * N + j]) * s[l / G * N + j];
  product(x, d, y, N, N, N);
  free(d);
}

#ifdef __F16C__
void half_kn(const float *R x, const _Float16 *R w, float *R y) {
  float *d = room(N * N);
  PAR for (int i = 0; i < N * N; i++) d[i] = (float)w[i];
  product(x, d, y, N, N, N);
  free(d);
}
#endif

void gelu_rows(const float *R a, const float *R w, float *R y) {
  float *d = room(N * N);
  PAR for (int i = 0; i < N * N; i++) d[i] = a[i] * 0.5f * (1.0f + erff(a[i] * 0.70710678f));
  product(d, w, y, N, N, N);
  free(d);
}

void normed_rows(const float *R a, const float *R w, float *R y) {
  float *d = room(N * N);
  PAR for (int i = 0; i < N; i++) {
    float m = 0, q = 0;
    for (int l = 0; l < N; l++) m += a[i * N + l];
    m /= N;
    for (int l = 0; l < N; l++) q += (a[i * N + l] - m) * (a[i * N + l] - m);
    q = 1 / sqrtf(q / N + 1e-5f);
    for (int l = 0; l < N; l++) d[i * N + l] = (a[i * N + l] - m) * q;
  }
  product(d, w, y, N, N, N);
  free(d);
}

void normed_columns(const float *R a, const float *R w, float *R y) {
  float *d = room(N * N), *q = room(N);
  memset(q, 0, 4 * N);
  for (int l = 0; l < N; l++) for (int j = 0; j < N; j++) q[j] += w[l * N + j] * w[l * N + j];
  for (int j = 0; j < N; j++) q[j] = 1 / sqrtf(q[j]);
  PAR for (int l = 0; l < N; l++) for (int j = 0; j < N; j++) d[l * N + j] = w[l * N + j] * q[j];
  product(a, d, y, N, N, N);
  free(d), free(q);
}

void gathered_rows(const int32_t *R ids, const float *R t, const float *R w, float *R y) {
  float *d = room(N * 512);
  for (int i = 0; i < N; i++) memcpy(d + i * 512, t + (size_t)ids[i] * 512, 4 * 512);
  product(d, w, y, N, N, 512);
  free(d);
}

// distances of 4 points to all centres, then the least and where it is
static inline __attribute__((always_inline)) void nearest(const float *R x, const float *R c, int32_t *R y, int squares) {
  enum { P = 16384, C = 512, K = 64 };
  float *t = room(C * K), *norm = room(C);
  for (int j = 0; j < C; j++) {
    norm[j] = 0;
    for (int l = 0; l < K; l++) t[(j / 32 * K + l) * 32 + j % 32] = c[j * K + l], norm[j] += c[j * K + l] * c[j * K + l];
  }
  PAR for (int i = 0; i < P; i += 4) {
    float d[4][C];
    for (int j0 = 0; j0 < C; j0 += 32) {
      float s[4][32];
      memset(s, 0, sizeof s);
      if (squares)
        for (int l = 0; l < K; l++) for (int r = 0; r < 4; r++) for (int j = 0; j < 32; j++) {
          float e = x[(i + r) * K + l] - t[(j0 / 32 * K + l) * 32 + j];
          s[r][j] += e * e;
        }
      else
        for (int l = 0; l < K; l++) for (int r = 0; r < 4; r++) for (int j = 0; j < 32; j++)
          s[r][j] += x[(i + r) * K + l] * t[(j0 / 32 * K + l) * 32 + j];
      for (int r = 0; r < 4; r++) for (int j = 0; j < 32; j++) d[r][j0 + j] = squares ? s[r][j] : norm[j0 + j] - 2 * s[r][j];
    }
    for (int r = 0; r < 4; r++) {
      float low = FLT_MAX;
      int at = C;
      for (int j = 0; j < C; j++) low = d[r][j] < low ? d[r][j] : low;
      for (int j = 0; j < C; j++) {
        int here = d[r][j] == low ? j : C;
        at = here < at ? here : at;
      }
      y[i + r] = at;
    }
  }
  free(t), free(norm);
}

void nearest_products(const float *R x, const float *R c, int32_t *R y) { nearest(x, c, y, 0); }
void nearest_squares(const float *R x, const float *R c, int32_t *R y) { nearest(x, c, y, 1); }

void chain3(const float *R a, const float *R b, const float *R c, float *R y) {
  float *t = room(512 * 512);
  product(a, b, t, 512, 512, 512), product(t, c, y, 512, 512, 512);
  free(t);
}

void chain4(const float *R a, const float *R b, const float *R c, const float *R d, float *R y) {
  float *t = room(512 * 512), *u = room(512 * 512);
  product(a, b, t, 512, 512, 512), product(t, c, u, 512, 512, 512), product(u, d, y, 512, 512, 512);
  free(t), free(u);
}

void lowrank(const float *R a, const float *R b, const float *R c, float *R y) {
  float *t = room(2048 * 16);
  product(a, b, t, 2048, 16, 2048), product(t, c, y, 2048, 2048, 16);
  free(t);
}

void bilinear(const float *R x, const float *R a, const float *R w, float *R y) {
  enum { B = 64, D = 128 };
  float *t = room((size_t)B * D * D);
  product(x, a, t, B, D * D, D);
  PAR for (int b = 0; b < B; b++) {
    memset(y + b * D, 0, 4 * D);
    for (int j = 0; j < D; j++) for (int k = 0; k < D; k++) y[b * D + k] += w[b * D + j] * t[((size_t)b * D + j) * D + k];
  }
  free(t);
}

void quadratic(const float *R x, const float *R a, const float *R w, float *R y) {
  enum { B = 4096, D = 256 };
  float *t = room((size_t)B * D);
  product(x, a, t, B, D, D);
  PAR for (int b = 0; b < B; b++) {
    float s = 0;
    for (int j = 0; j < D; j++) s += t[b * D + j] * w[b * D + j];
    y[b] = s;
  }
  free(t);
}

static float *turned(const float *R a, int m, int n) {
  float *t = room((size_t)m * n);
  for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) t[j * m + i] = a[i * n + j];
  return t;
}

void tucker(const float *R g, const float *R a, const float *R b, const float *R c, float *R y) {
  enum { D = 160, Q = 24 };
  float *t = room(D * Q * Q), *u = room((size_t)D * D * Q), *ct = turned(c, D, Q);
  product(a, g, t, D, Q * Q, Q);
  PAR for (int i = 0; i < D; i++) for (int j = 0; j < D; j++) {
    float *o = u + ((size_t)i * D + j) * Q;
    memset(o, 0, 4 * Q);
    for (int q = 0; q < Q; q++) for (int r = 0; r < Q; r++) o[r] += b[j * Q + q] * t[(i * Q + q) * Q + r];
  }
  product(u, ct, y, D * D, D, Q);
  free(t), free(u), free(ct);
}

void cp(const float *R a, const float *R b, const float *R c, float *R y) {
  enum { D = 192, Q = 64 };
  float *p = room((size_t)D * D * Q), *ct = turned(c, D, Q);
  PAR for (int i = 0; i < D; i++) for (int j = 0; j < D; j++) for (int q = 0; q < Q; q++)
    p[((size_t)i * D + j) * Q + q] = a[i * Q + q] * b[j * Q + q];
  product(p, ct, y, D * D, D, Q);
  free(p), free(ct);
}

void mttkrp(const float *R t, const float *R b, const float *R c, float *R y) {
  enum { J = 96, Q = 64 };
  float *h = room(J * J * Q);
  for (int j = 0; j < J; j++) for (int k = 0; k < J; k++) for (int q = 0; q < Q; q++)
    h[(j * J + k) * Q + q] = b[j * Q + q] * c[k * Q + q];
  product(t, h, y, 256, Q, J * J);
  free(h);
}
