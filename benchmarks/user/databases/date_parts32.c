void kernel(const int *restrict t, int *restrict ymd) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    unsigned z = t[i] + 719468, era = z / 146097, doe = z - era * 146097;
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    unsigned day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = yoe + era * 400 + (month <= 2);
    ymd[i] = year * 10000 + month * 100 + day;
  }
}
