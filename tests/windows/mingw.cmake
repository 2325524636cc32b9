# llama.cpp for Windows (x64), compiled on Debian: apt install g++-mingw-w64-x86-64-posix

set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
# std::thread needs the compiler with POSIX threads.
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The stack is aligned to 16 bytes there, and GCC moves vectors of 32 as if it were aligned to 32
# (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=54412).
add_compile_options(-Wa,-muse-unaligned-vector-move)
# Its headers lack these names; the structure for processes has the same members.
add_compile_definitions(
    THREAD_POWER_THROTTLING_STATE=PROCESS_POWER_THROTTLING_STATE
    THREAD_POWER_THROTTLING_CURRENT_VERSION=1
    THREAD_POWER_THROTTLING_EXECUTION_SPEED=1
)
# A Windows machine has none of the compiler's own libraries. Each DLL keeps its copy to itself.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-static -Wl,--exclude-libs,ALL")

# For every processor with AVX2: llama.cpp turns all of these off where it is compiled for another system.
foreach(extension SSE42 AVX AVX2 BMI2 FMA F16C)
    set(GGML_${extension} ON CACHE BOOL "")
endforeach()
# Its own threads, as OpenMP would be one more library to ship. Images and HTTPS are not used.
foreach(part GGML_NATIVE GGML_OPENMP LLAMA_OPENSSL LLAVA_BUILD)
    set(${part} OFF CACHE BOOL "")
endforeach()
# What only its command line needs takes half of the time. The project turns it on in the cache,
# which this variable hides.
set(LLAMA_BUILD_COMMON OFF)
