# Every dependency as one target dep_NAME, so that layers name what they use. Missing ones say which package to install.
find_package(Threads REQUIRED)
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

function(cellfeed_dependency name debian_package)
  cmake_parse_arguments(A "" "HEADER;LIBRARY" "SUFFIXES" ${ARGN})
  add_library(dep_${name} INTERFACE)
  find_path(${name}_INCLUDE ${A_HEADER} PATH_SUFFIXES ${A_SUFFIXES})
  if(NOT ${name}_INCLUDE)
    message(FATAL_ERROR "${A_HEADER} not found: install ${debian_package}")
  endif()
  target_include_directories(dep_${name} SYSTEM INTERFACE ${${name}_INCLUDE})
  if(A_LIBRARY)
    find_library(${name}_LIBRARY NAMES ${A_LIBRARY} PATH_SUFFIXES hdf5/serial)
    if(NOT ${name}_LIBRARY)
      message(FATAL_ERROR "lib${A_LIBRARY} not found: install ${debian_package}")
    endif()
    target_link_libraries(dep_${name} INTERFACE ${${name}_LIBRARY})
  endif()
endfunction()

cellfeed_dependency(libhdf5 libhdf5-dev HEADER hdf5.h LIBRARY hdf5_serial SUFFIXES hdf5/serial)
cellfeed_dependency(libdeflate libdeflate-dev HEADER libdeflate.h LIBRARY deflate)
cellfeed_dependency(zlib zlib1g-dev HEADER zlib.h LIBRARY z)
cellfeed_dependency(zstd libzstd-dev HEADER zstd.h LIBRARY zstd)
cellfeed_dependency(lz4 liblz4-dev HEADER lz4.h LIBRARY lz4)
cellfeed_dependency(blosc libblosc-dev HEADER blosc.h LIBRARY blosc)
cellfeed_dependency(uring liburing-dev HEADER liburing.h LIBRARY uring)
cellfeed_dependency(hwy libhwy-dev HEADER hwy/highway.h LIBRARY hwy)
cellfeed_dependency(hwy_sort libhwy-dev HEADER hwy/contrib/sort/vqsort.h LIBRARY hwy_contrib)
cellfeed_dependency(xxhash libxxhash-dev HEADER xxhash.h LIBRARY xxhash)
include(CheckLibraryExists)
# Chooses among vector instructions when it runs; builds for x86-64 may have it.
check_library_exists(${xxhash_LIBRARY} XXH3_64bits_dispatch "" CELLFEED_HAS_XXH3_DISPATCH)
if(CELLFEED_HAS_XXH3_DISPATCH)
  target_compile_definitions(dep_xxhash INTERFACE CELLFEED_HAS_XXH3_DISPATCH)
endif()
cellfeed_dependency(crypto libssl-dev HEADER openssl/evp.h LIBRARY crypto)
cellfeed_dependency(curl libcurl4-openssl-dev HEADER curl/curl.h LIBRARY curl)
cellfeed_dependency(json nlohmann-json3-dev HEADER nlohmann/json.hpp)
cellfeed_dependency(yaml libyaml-cpp-dev HEADER yaml-cpp/yaml.h LIBRARY yaml-cpp)
cellfeed_dependency(cli11 libcli11-dev HEADER CLI/CLI.hpp)
cellfeed_dependency(random123 librandom123-dev HEADER Random123/philox.h)
cellfeed_dependency(fmt libfmt-dev HEADER fmt/format.h LIBRARY fmt)

# Arrow comes from the pyarrow wheel, so that the module and pyarrow share one library in a process.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import pyarrow as a; print(a.get_include(), a.get_library_dirs()[0], sep=';')"
  OUTPUT_VARIABLE arrow_paths OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE arrow_status)
if(NOT arrow_status EQUAL 0)
  message(FATAL_ERROR "pyarrow not found by ${Python_EXECUTABLE}: pip install 'pyarrow==26.0.*'")
endif()
list(GET arrow_paths 0 arrow_include)
list(GET arrow_paths 1 arrow_libdir)
file(GLOB arrow_library ${arrow_libdir}/libarrow.so.*)
file(GLOB parquet_library ${arrow_libdir}/libparquet.so.*)
add_library(dep_arrow INTERFACE)
target_include_directories(dep_arrow SYSTEM INTERFACE ${arrow_include})
target_link_libraries(dep_arrow INTERFACE ${arrow_library} ${parquet_library})

target_link_libraries(dep_uring INTERFACE Threads::Threads)

# libhdf5 and libcurl bring libcrypto, and libparquet exports an OpenSSL of its own. Were libcrypto not searched first, they
# would call into that one, and what they make would be handed to the other. An option, as CMake moves libraries that are
# named twice to their last place.
add_library(cellfeed_crypto_first INTERFACE)
target_link_options(cellfeed_crypto_first INTERFACE "LINKER:--push-state,--no-as-needed,${crypto_LIBRARY},--pop-state")
