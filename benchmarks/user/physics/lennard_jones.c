void kernel(const float (*restrict at)[3], float *restrict energies, float *restrict virials) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float energy = 0, virial = 0;
    for (int j = 0; j < N; j++) {
      float dx = at[i][0] - at[j][0], dy = at[i][1] - at[j][1], dz = at[i][2] - at[j][2];
      float near = 1 / (dx * dx + dy * dy + dz * dz + 0.25f), six = near * near * near;
      energy += i == j ? 0 : six * (six - 1);
      virial += i == j ? 0 : six * (2 * six - 1);
    }
    energies[i] = 2 * energy;
    virials[i] = 4 * virial;
  }
}
