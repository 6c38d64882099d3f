void kernel(const double (*restrict price)[N], double (*restrict rsi)[N], double (*restrict macd)[N]) {
  double up[N], down[N], fast[N], slow[N], signal[N];
  for (int j = 0; j < N; j++) {
    up[j] = down[j] = signal[j] = rsi[0][j] = macd[0][j] = 0;
    fast[j] = slow[j] = price[0][j];
  }
  for (int i = 1; i < T; i++)
    for (int j = 0; j < N; j++) {
      double p = price[i][j], change = p - price[i - 1][j];
      up[j] += ((change > 0 ? change : 0) - up[j]) / 14;
      down[j] += ((change < 0 ? -change : 0) - down[j]) / 14;
      fast[j] += (p - fast[j]) / 6.5;
      slow[j] += (p - slow[j]) / 13.5;
      signal[j] += (fast[j] - slow[j] - signal[j]) / 5;
      rsi[i][j] = 100 * up[j] / (up[j] + down[j] + 1e-9);
      macd[i][j] = fast[j] - slow[j] - signal[j];
    }
}
