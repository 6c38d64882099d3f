void kernel(const int (*restrict quad)[4], const int (*restrict p)[2], _Bool *restrict flip, int *restrict count) {
  int many = 0;
#pragma omp parallel for reduction(+ : many)
  for (int i = 0; i < E; i++) {
    const int *a = p[quad[i][0]], *b = p[quad[i][1]], *c = p[quad[i][2]], *d = p[quad[i][3]];
    long ax = a[0] - d[0], ay = a[1] - d[1], bx = b[0] - d[0], by = b[1] - d[1], cx = c[0] - d[0], cy = c[1] - d[1];
    long ab = ax * by - ay * bx, bc = bx * cy - by * cx, ca = cx * ay - cy * ax;
    long det = (ax * ax + ay * ay) * bc + (bx * bx + by * by) * ca + (cx * cx + cy * cy) * ab;
    _Bool in = (ab + bc + ca > 0 ? det : -det) > 0;
    flip[i] = in;
    many += in;
  }
  *count = many;
}
