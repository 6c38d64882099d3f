void kernel(const float (*restrict p)[K][V], const float (*restrict q)[K][V], const int (*restrict token)[K], const float (*restrict u)[K],
            int *restrict accepted, float (*restrict rest)[V]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int many = 0;
    while (many < K && u[i][many] * q[i][many][token[i][many]] <= p[i][many][token[i][many]]) many++;
    int at = many < K ? many : K - 1;
    float total = 0;
    for (int j = 0; j < V; j++) {
      float d = p[i][at][j] - q[i][at][j];
      total += rest[i][j] = d > 0 ? d : 0;
    }
    for (int j = 0; j < V; j++) rest[i][j] /= total;
    accepted[i] = many;
  }
}
