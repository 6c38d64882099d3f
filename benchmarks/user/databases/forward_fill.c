void kernel(const float (*restrict x)[S], const unsigned char (*restrict valid)[S], const float *restrict normal,
            float (*restrict filled)[S], int (*restrict age)[S]) {
  float now[S];
  int old[S];
  for (int j = 0; j < S; j++) now[j] = normal[j], old[j] = -1;
  for (int i = 0; i < T; i++)
    for (int j = 0; j < S; j++) {
      now[j] = valid[i][j] ? x[i][j] : now[j];
      old[j] = valid[i][j] ? 0 : old[j] < 0 ? -1 : old[j] + 1;
      filled[i][j] = now[j];
      age[i][j] = old[j];
    }
}
