void kernel(const unsigned char (*restrict x)[H][W], unsigned char (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int n = 0; n < B; n++) {
    int many[256] = {0}, first = 0, upto = 0;
    unsigned char table[256];
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) many[x[n][i][j]]++;
    while (!many[first]) first++;
    first = many[first];
    int of = H * W > first ? H * W - first : 1;
    for (int v = 0; v < 256; v++) {
      upto += many[v];
      table[v] = upto > first ? ((upto - first) * 510 + of) / (2 * of) : 0;
    }
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) y[n][i][j] = table[x[n][i][j]];
  }
}
