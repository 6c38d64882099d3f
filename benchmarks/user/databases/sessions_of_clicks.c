void kernel(const short *restrict gap, int *restrict of, int *restrict seconds, int *restrict clicks) {
  int session = 0, since = 0, many = 0;
  for (int i = 0; i < N; i++) {
    since += gap[i];
    if (i == 0) since = 0;
    else if (gap[i] > 1800) clicks[session++] = many, since = many = 0;
    of[i] = session, seconds[i] = since, many++;
  }
  clicks[session++] = many;
  for (; session < N; session++) clicks[session] = 0;
}
