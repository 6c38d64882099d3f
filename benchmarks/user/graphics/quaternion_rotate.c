void kernel(const float (*restrict q)[4], const float (*restrict v)[3], float (*restrict y)[3]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float a = q[i][0], b = q[i][1], c = q[i][2], w = q[i][3], p = v[i][0], r = v[i][1], s = v[i][2];
    float x = 2 * (b * s - c * r), y_ = 2 * (c * p - a * s), z = 2 * (a * r - b * p);
    y[i][0] = p + w * x + (b * z - c * y_);
    y[i][1] = r + w * y_ + (c * x - a * z);
    y[i][2] = s + w * z + (a * y_ - b * x);
  }
}
