static void lead(const short *restrict x, float *restrict energy, float *restrict most) {
  int low[N - 10], band[N - 41], around = 0;
  float square[N - 45], top = 0;
  for (int t = 0; t < N - 10; t++)
    low[t] = x[t] + 2 * x[t + 1] + 3 * x[t + 2] + 4 * x[t + 3] + 5 * x[t + 4] + 6 * x[t + 5] + 5 * x[t + 6] + 4 * x[t + 7] +
             3 * x[t + 8] + 2 * x[t + 9] + x[t + 10];
  for (int t = 0; t < 31; t++) around += low[t];
  for (int t = 0; t < N - 41; t++) {
    around += low[t + 31];
    band[t] = (32 * low[t + 16] - around) >> 8;
    around -= low[t];
  }
  for (int t = 0; t < N - 45; t++) {
    float slope = 2 * band[t + 4] + band[t + 3] - band[t + 1] - 2 * band[t];
    square[t] = slope * slope;
  }
  double sum = 0;
  for (int t = 0; t < 29; t++) sum += square[t];
  for (int t = 0; t < N - 74; t++) {
    sum += square[t + 29];
    energy[t] = sum / 30;
    top = energy[t] > top ? energy[t] : top;
    sum -= square[t];
  }
  *most = top;
}
void kernel(const short (*restrict x)[N], float (*restrict energy)[N - 74], float *restrict most) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) lead(x[i], energy[i], most + i);
}
