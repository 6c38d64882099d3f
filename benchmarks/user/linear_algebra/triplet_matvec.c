void kernel(const int *restrict row, const int *restrict column, const float *restrict value, const float *restrict x,
            float *restrict y) {
  for (int i = 0; i < M; i++) y[i] = 0;
  for (int i = 0; i < Z; i++) y[row[i]] += value[i] * x[column[i]];
}
