#define N 256
#define TILE_I 16
#define TILE_J 64
#define TILE_K 16
#define UNROLL 1
#define TEXT(x) #x
#define DO(x) _Pragma(TEXT(x))
// c = a b, all N x N, in tiles of TILE_I rows, TILE_J columns and TILE_K products.
void matmul(const float *a, const float *b, float *c) {
    for (int i = 0; i < N * N; i++) c[i] = 0.0f;
    for (int i0 = 0; i0 < N; i0 += TILE_I)
        for (int k0 = 0; k0 < N; k0 += TILE_K)
            for (int j0 = 0; j0 < N; j0 += TILE_J)
                for (int i = i0; i < i0 + TILE_I; i++)
                    for (int k = k0; k < k0 + TILE_K; k++) {
                        const float x = a[i * N + k];
                        DO(GCC unroll UNROLL)
                        for (int j = j0; j < j0 + TILE_J; j++) c[i * N + j] += x * b[k * N + j];
                    }
}
