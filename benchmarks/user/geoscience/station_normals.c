void kernel(const short (*restrict x)[D][S], float (*restrict normal)[S], float (*restrict off)[D][S]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    int total[S], many[S];
    for (int j = 0; j < S; j++) total[j] = many[j] = 0;
    for (int a = 0; a < Y; a++)
      for (int j = 0; j < S; j++) total[j] += x[a][i][j] >= -400 ? x[a][i][j] : 0, many[j] += x[a][i][j] >= -400;
#pragma omp simd
    for (int j = 0; j < S; j++) normal[i][j] = (float)total[j] / (many[j] > 1 ? many[j] : 1);
    for (int a = 0; a < Y; a++)
#pragma omp simd
      for (int j = 0; j < S; j++) off[a][i][j] = x[a][i][j] >= -400 ? x[a][i][j] - normal[i][j] : -9999;
  }
}
