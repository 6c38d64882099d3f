#define FW filter_width
#define FH filter_height
// A correlation of an image of (height + FH - 1) x (width + FW - 1) with FH x FW taps: tile_size_x x tile_size_y outputs a work item.
__kernel void convolution(__global float *out, __global const float *image, __constant float *taps) {
    const int x0 = (get_group_id(0) * block_size_x) * tile_size_x + get_local_id(0);
    const int y0 = (get_group_id(1) * block_size_y) * tile_size_y + get_local_id(1);
    float sum[tile_size_y][tile_size_x];
    for (int y = 0; y < tile_size_y; y++)
        for (int x = 0; x < tile_size_x; x++) sum[y][x] = 0.0f;
    for (int j = 0; j < FH; j++)
        for (int i = 0; i < FW; i++) {
            const float t = taps[j * FW + i];
            for (int y = 0; y < tile_size_y; y++)
                for (int x = 0; x < tile_size_x; x++)
                    sum[y][x] += t * image[(y0 + y * block_size_y + j) * (width + FW - 1) + x0 + x * block_size_x + i];
        }
    for (int y = 0; y < tile_size_y; y++)
        for (int x = 0; x < tile_size_x; x++)
            out[(y0 + y * block_size_y) * width + x0 + x * block_size_x] = sum[y][x];
}
