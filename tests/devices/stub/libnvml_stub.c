// A libnvidia-ml.so.1 for tests: one GPU on the bus at 0000:01:00.0, which is slowed by its power cap.
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { return *device = (void *)42, strcmp(bus, "0000:01:00.0") ? 6 : 0; }
int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *mhz) { return *mhz = which == 1 ? 1755 : which == 2 ? 3201 : 0, device != (void *)42; }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) { return *celsius = 41, sensor != 0 || device != (void *)42; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { return *milliwatts = 512300, device != (void *)42; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) { return *reasons = 0x5, device != (void *)42; }
