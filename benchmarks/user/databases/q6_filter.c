void kernel(const double *restrict price, const signed char *restrict discount, const signed char *restrict quantity,
            const int *restrict day, double *restrict sum, int *restrict count) {
  double total = 0;
  int many = 0;
#pragma omp parallel for reduction(+ : total, many)
  for (int i = 0; i < N; i++)
    if (day[i] >= 8766 & day[i] < 9131 & discount[i] >= 5 & discount[i] <= 7 & quantity[i] < 24) {
      total += price[i] * discount[i] * 0.01;
      many++;
    }
  sum[0] = total;
  count[0] = many;
}
