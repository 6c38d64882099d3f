#include <math.h>
static void orbit(const double *restrict u, const double *restrict v, double e, double phase, double rate,
                  const double *restrict day, double (*restrict place)[3], double (*restrict velocity)[3]) {
  for (int k = 0; k < T; k++) {
    double m = phase + rate * day[k];
    m -= 2 * M_PI * nearbyint(m * (0.5 / M_PI));
    double a = m + e * sin(m);
    for (int r = 0; r < 4; r++) a -= (a - e * sin(a) - m) / (1 - e * cos(a));
    double x = cos(a), y = sin(a), speed = rate / (1 - e * x);
    for (int c = 0; c < 3; c++) place[k][c] = u[c] * (x - e) + v[c] * y, velocity[k][c] = (v[c] * x - u[c] * y) * speed;
  }
}
void kernel(const double *restrict size, const double *restrict ecc, const double *restrict incline, const double *restrict node,
            const double *restrict peri, const double *restrict phase, const double *restrict rate, const double *restrict day,
            double (*restrict place)[T][3], double (*restrict velocity)[T][3]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double ci = cos(incline[i]), si = sin(incline[i]), cn = cos(node[i]), sn = sin(node[i]), cp = cos(peri[i]), sp = sin(peri[i]);
    double a = size[i], b = size[i] * sqrt(1 - ecc[i] * ecc[i]);
    double u[3] = {a * (cn * cp - sn * sp * ci), a * (sn * cp + cn * sp * ci), a * sp * si};
    double v[3] = {b * (-cn * sp - sn * cp * ci), b * (-sn * sp + cn * cp * ci), b * cp * si};
    orbit(u, v, ecc[i], phase[i], rate[i], day, place[i], velocity[i]);
  }
}
