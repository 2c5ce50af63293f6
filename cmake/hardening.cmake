# What distributions build with, so that a defect ends the program before it is of use to anyone. It holds for all that
# is compiled here and for what nanobind brings; sanitizers have their own means. cellfeed_harden(FLAGS...): those of
# the flags that this compiler knows.
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

function(cellfeed_harden)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "CELLFEED_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      add_compile_options(${flag})
    endif()
  endforeach()
endfunction()

if(NOT CELLFEED_SANITIZE)
  cellfeed_harden(-fstack-protector-strong -fstack-clash-protection)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
    cellfeed_harden(-fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    cellfeed_harden(-mbranch-protection=standard)
  endif()
  # Without optimisation it would only warn. A distribution may have set a lower level already.
  add_compile_options($<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
                      $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=3>)
  add_link_options(LINKER:-z,relro,-z,now LINKER:-z,noexecstack)
endif()
