/// A management library with one card, for tests: the program loads it in place of NVIDIA's.

#include <cstring>

extern "C" {

/// What tests set: a value below 0 makes its call fail, as on cards that cannot tell.
int fakeNvmlPowerMilliwatts = 123'400, fakeNvmlTemperature = 61, fakeNvmlInitResult = 0;
int fakeNvmlUsers = 0, fakeNvmlReads = 0;

int nvmlInit_v2()
{
    if (fakeNvmlInitResult == 0)
        ++fakeNvmlUsers;
    return fakeNvmlInitResult;
}

int nvmlShutdown()
{
    --fakeNvmlUsers;
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device)
{
    *device = &fakeNvmlUsers;
    return std::strcmp(id, "0000:41:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetTemperature(void*, int, unsigned* value)
{
    ++fakeNvmlReads;
    *value = unsigned(fakeNvmlTemperature);
    return fakeNvmlTemperature < 0 ? 3 : 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* value)
{
    *value = unsigned(fakeNvmlPowerMilliwatts);
    return fakeNvmlPowerMilliwatts < 0 ? 3 : 0;
}

int nvmlDeviceGetClockInfo(void*, int clock, unsigned* value)
{
    *value = clock == 1 ? 1980 : clock == 2 ? 9501 : 0;
    return 0;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* value)
{
    *value = 4;
    return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* value)
{
    *value = 16;
    return 0;
}

int nvmlDeviceGetPcieThroughput(void*, int direction, unsigned* value)
{
    *value = direction == 1 ? 2048 : 512;
    return 0;
}
}
