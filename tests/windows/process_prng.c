/* bcryptprimitives.dll of Wine 8 lacks ProcessPrng, which every library written in Rust imports. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return SystemFunction036(data, (ULONG)size);
}
