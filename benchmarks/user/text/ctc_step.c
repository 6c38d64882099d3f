#include <math.h>
#define S (2 * L + 1)
void kernel(const float (*restrict alpha)[S], const float (*restrict logp)[V], const int (*restrict label)[L], float (*restrict new)[S]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int j = 0; j < S; j++) {
      int this = j % 2 ? label[i][j / 2] : 0;
      float stay = alpha[i][j], go = j >= 1 ? alpha[i][j - 1] : -1e30f;
      float skip = j % 2 && j >= 3 && this != label[i][j / 2 - 1] ? alpha[i][j - 2] : -1e30f, top = fmaxf(fmaxf(stay, go), skip);
      new[i][j] = logp[i][this] + top + logf(expf(stay - top) + expf(go - top) + expf(skip - top));
    }
}
