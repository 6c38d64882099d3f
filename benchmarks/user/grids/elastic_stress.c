#define SLOPE(a, b, c, d) (((c) - (b)) * 1.125f - ((d) - (a)) * (1 / 24.f))
typedef float row[W], halo[W + 4], corner[W + 1];
void kernel(const halo *restrict vx, const halo *restrict vz, const corner *restrict lam, const corner *restrict mu, const row *restrict xx,
            const row *restrict zz, const row *restrict xz, row *restrict nxx, row *restrict nzz, row *restrict nxz) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) {
      const int p = i + 2, q = j + 2;
      float dx = SLOPE(vx[p][q - 2], vx[p][q - 1], vx[p][q], vx[p][q + 1]), dz = SLOPE(vz[p - 2][q], vz[p - 1][q], vz[p][q], vz[p + 1][q]);
      float sx = SLOPE(vx[p - 1][q], vx[p][q], vx[p + 1][q], vx[p + 2][q]), sz = SLOPE(vz[p][q - 1], vz[p][q], vz[p][q + 1], vz[p][q + 2]);
      float shear = 4 / (1 / mu[i][j] + 1 / mu[i + 1][j] + 1 / mu[i][j + 1] + 1 / mu[i + 1][j + 1]);
      nxx[i][j] = xx[i][j] + 0.01f * ((lam[i][j] + 2 * mu[i][j]) * dx + lam[i][j] * dz);
      nzz[i][j] = zz[i][j] + 0.01f * ((lam[i][j] + 2 * mu[i][j]) * dz + lam[i][j] * dx);
      nxz[i][j] = xz[i][j] + 0.01f * shear * (sx + sz);
    }
}
