static void user(const float (*restrict items)[F], const float (*restrict every)[F], const int *restrict ids, int many,
                 const float *restrict trust, float (*restrict left)[F], float *restrict right) {
  for (int p = 0; p < F; p++) {
    right[p] = 0;
    for (int q = 0; q < F; q++) left[p][q] = every[p][q] + (p == q ? 0.1f : 0);
  }
  for (int a = 0; a < many; a++) {
    const float *v = items[ids[a]];
    for (int p = 0; p < F; p++) {
      right[p] += (1 + trust[a]) * v[p];
      for (int q = 0; q < F; q++) left[p][q] += trust[a] * v[p] * v[q];
    }
  }
}
void kernel(const float (*restrict items)[F], const float (*restrict every)[F], const int (*restrict ids)[L],
            const int *restrict many, const float (*restrict trust)[L], float (*restrict left)[F][F], float (*restrict right)[F]) {
#pragma omp parallel for
  for (int i = 0; i < U; i++) user(items, every, ids[i], many[i], trust[i], left[i], right[i]);
}
