#include <stdbool.h>
void kernel(const long long *restrict a, const unsigned char *restrict b, const double *restrict x, long long *restrict first,
            double *restrict mean, bool *restrict alone, int *restrict heads) {
  int leads = 0;
#pragma omp parallel for reduction(+ : leads)
  for (int i = 0; i < N; i++) {
    int at = N, many = 0;
    double total = 0;
    for (int j = 0; j < N; j++) {
      int same = (a[i] == a[j]) & (b[i] == b[j]);
      at = same && j < at ? j : at;
      many += same;
      total += same ? x[j] : 0;
    }
    first[i] = at;
    mean[i] = total / many;
    alone[i] = many == 1;
    leads += at == i;
  }
  *heads = leads;
}
