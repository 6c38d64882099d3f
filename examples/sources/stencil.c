#define ROWS 512
#define COLS 1024
#define BLOCK_I 32
#define BLOCK_J 256
#define UNROLL_I 1
#define UNROLL_J 1
#define TEXT(x) #x
#define DO(x) _Pragma(TEXT(x))
// The mean of each inner element and its eight neighbours, in blocks of BLOCK_I x BLOCK_J; the border is copied.
void stencil(const float *x, float *y) {
    for (int j = 0; j < COLS; j++) y[j] = x[j], y[(ROWS - 1) * COLS + j] = x[(ROWS - 1) * COLS + j];
    for (int i = 0; i < ROWS; i++) y[i * COLS] = x[i * COLS], y[i * COLS + COLS - 1] = x[i * COLS + COLS - 1];
    for (int i0 = 1; i0 < ROWS - 1; i0 += BLOCK_I)
        for (int j0 = 1; j0 < COLS - 1; j0 += BLOCK_J) {
            const int i1 = i0 + BLOCK_I < ROWS - 1 ? i0 + BLOCK_I : ROWS - 1, j1 = j0 + BLOCK_J < COLS - 1 ? j0 + BLOCK_J : COLS - 1;
            DO(GCC unroll UNROLL_I)
            for (int i = i0; i < i1; i++)
                DO(GCC unroll UNROLL_J)
                for (int j = j0; j < j1; j++) {
                    const float *p = x + i * COLS + j;
                    y[i * COLS + j] = (p[-COLS - 1] + p[-COLS] + p[-COLS + 1] + p[-1] + p[0] + p[1] + p[COLS - 1] + p[COLS] + p[COLS + 1]) / 9.0f;
                }
        }
}
