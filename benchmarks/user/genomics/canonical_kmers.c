typedef long long i64;
typedef unsigned long long u64;
static i64 mixed(u64 v) { return (v * v * 0x9E3779B97F4A7C1ull + v * 0x2545F4914F6CDD1Dull) ^ (v >> 17); }
void kernel(const unsigned char *restrict x, i64 *restrict hash, unsigned char *restrict turned, i64 *restrict least) {
  i64 low = 0x7fffffffffffffffll;
#pragma omp parallel for reduction(min : low)
  for (int i = 0; i < N; i++) {
    u64 ahead = 0, back = 0;
    for (int k = 0; k < 21; k++) {
      ahead = ahead << 2 | x[i + k];
      back = back << 2 | (3 - x[i + 20 - k]);
    }
    i64 a = mixed(ahead), b = mixed(back);
    hash[i] = a < b ? a : b;
    turned[i] = b < a;
    low = hash[i] < low ? hash[i] : low;
  }
  *least = low;
}
