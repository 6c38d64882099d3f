#include <math.h>
static void query(int many, const float *restrict score, const unsigned char *restrict grade, const float *restrict discount,
                  float *restrict slope, float *restrict curve) {
  float gain[N], by[N], ideal = 0;
  for (int i = 0; i < N; i++) slope[i] = curve[i] = 0;
  for (int i = 0; i < many; i++) {
    int rank = 0, best = 0;
    for (int j = 0; j < many; j++) {
      rank += (score[j] > score[i]) | ((score[j] == score[i]) & (j < i));
      best += (grade[j] > grade[i]) | ((grade[j] == grade[i]) & (j < i));
    }
    gain[i] = (1 << grade[i]) - 1, by[i] = discount[rank];
    ideal += gain[i] * discount[best];
  }
  float over = 1 / (ideal > 0.01f ? ideal : 0.01f);
  for (int i = 0; i < many; i++) {
    float s = 0, c = 0;
    for (int j = 0; j < i; j++) {
      float swap = fabsf((gain[i] - gain[j]) * (by[i] - by[j])) * over, up = gain[i] > gain[j] ? 1 : -1;
      float miss = 1 / (1 + expf(up * (score[i] - score[j]))), a = up * miss * swap, b = miss * (1 - miss) * swap;
      slope[j] += a, curve[j] += b, s += a, c += b;
    }
    slope[i] -= s, curve[i] += c;
  }
}
void kernel(const float (*restrict score)[N], const unsigned char (*restrict grade)[N], const int *restrict many,
            const float *restrict discount, float (*restrict slope)[N], float (*restrict curve)[N]) {
#pragma omp parallel for
  for (int g = 0; g < Q; g++) query(many[g], score[g], grade[g], discount, slope[g], curve[g]);
}
