# Language level, warnings, sanitizers and Qt strictness, once for every target.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

add_library(octavo_options INTERFACE)
target_include_directories(octavo_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(octavo_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow=local;-Wno-missing-field-initializers;-fno-math-errno;-ffp-contract=off>
    # nvcc: CMake 3.25 knows no C++20 for CUDA, so the level is given by hand.
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
target_compile_definitions(octavo_options INTERFACE
    QT_NO_CAST_TO_ASCII QT_NO_URL_CAST_FROM_STRING QT_NO_NARROWING_CONVERSIONS_IN_CONNECT QT_USE_QSTRINGBUILDER)
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
