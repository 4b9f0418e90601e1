# Language level, warnings, sanitizers and Qt strictness, once for every target.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# -O2: the kernels are written in intrinsics, and what is not is not hot.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_library(octavo_options INTERFACE)
target_include_directories(octavo_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(octavo_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow=local;-Wno-missing-field-initializers;-fno-math-errno;-ffp-contract=off>)
target_compile_definitions(octavo_options INTERFACE
    QT_NO_CAST_TO_ASCII QT_NO_URL_CAST_FROM_STRING QT_NO_NARROWING_CONVERSIONS_IN_CONNECT QT_USE_QSTRINGBUILDER)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees overlapping copies in plain string concatenation (its bug 105651).
    target_compile_options(octavo_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(OCTAVO_WERROR)
    target_compile_options(octavo_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(OCTAVO_SANITIZE)
    target_compile_options(octavo_options INTERFACE
        $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${OCTAVO_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
    target_link_options(octavo_options INTERFACE -fsanitize=${OCTAVO_SANITIZE})
endif()
find_program(OCTAVO_CCACHE ccache)
if(OCTAVO_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${OCTAVO_CCACHE})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${OCTAVO_CCACHE})
endif()
find_program(OCTAVO_LLD ld.lld)
if(OCTAVO_LLD)
    add_link_options(-fuse-ld=lld)
endif()
