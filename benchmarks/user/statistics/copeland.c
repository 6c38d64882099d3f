void kernel(const short (*restrict v)[N], int *restrict score, int *restrict worst, int *restrict who, int *restrict votes) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int points = 0, most = -1000000, all = 0, at = N;
    for (int j = 0; j < N; j++) {
      int lead = v[j][i] - v[i][j];
      points += (lead < 0) - (lead > 0);
      most = lead > most ? lead : most;
      all += v[i][j];
    }
    for (int j = 0; j < N && at == N; j++)
      if (j != i && v[j][i] - v[i][j] == most) at = j;
    score[i] = points;
    worst[i] = most;
    who[i] = at;
    votes[i] = all;
  }
}
