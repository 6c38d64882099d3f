static void part(const unsigned char *restrict flag, const unsigned char *restrict status, const int *restrict quantity,
                 const int *restrict day, const double *restrict price, const double *restrict discount, const double *restrict tax,
                 int *restrict quantities, double *restrict prices, double *restrict charges, int *restrict count, int many) {
  for (int i = 0; i < many; i++)
    if (day[i] <= 10000) {
      int k = flag[i] * 2 + status[i];
      quantities[k] += quantity[i];
      prices[k] += price[i];
      charges[k] += price[i] * (1 - discount[i]) * (1 + tax[i]);
      count[k]++;
    }
}
void kernel(const unsigned char *restrict flag, const unsigned char *restrict status, const int *restrict quantity,
            const int *restrict day, const double *restrict price, const double *restrict discount, const double *restrict tax,
            int *restrict quantities, double *restrict prices, double *restrict charges, int *restrict count) {
  for (int k = 0; k < 6; k++) quantities[k] = count[k] = prices[k] = charges[k] = 0;
#pragma omp parallel for reduction(+ : quantities[:6], prices[:6], charges[:6], count[:6])
  for (int i = 0; i < N; i += 1024)
    part(flag + i, status + i, quantity + i, day + i, price + i, discount + i, tax + i, quantities, prices, charges, count,
         N - i < 1024 ? N - i : 1024);
}
