# -DCELLFEED_PORTABLE=DIRECTORY: link statically, and against an old glibc, as tools/wheel/build.sh prepares it there.
set(CELLFEED_PORTABLE "" CACHE PATH "Libraries of tools/wheel for a wheel that runs on other Linux systems")
if(CELLFEED_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  list(PREPEND CMAKE_LIBRARY_PATH ${CELLFEED_PORTABLE}/lib)
  install(DIRECTORY ${CELLFEED_PORTABLE}/licenses DESTINATION cellfeed/lib COMPONENT python)
  # RPATH, so that LD_LIBRARY_PATH does not lead to the libraries of another release.
  add_link_options(-nodefaultlibs LINKER:--exclude-libs,ALL LINKER:--disable-new-dtags)
  # An old glibc has its parts in libraries of their own, where a symbol may be whose version names libc.
  string(CONCAT CMAKE_CXX_STANDARD_LIBRARIES
    "-L${CELLFEED_PORTABLE}/system -Wl,--push-state,--no-as-needed -l:libstdc++.so.6 -l:libm.so.6 -l:libpthread.so.0 "
    "-l:libdl.so.2 -l:librt.so.1 -l:libc.so.6 -l:libgcc_s.so.1 -l:ld-linux-x86-64.so.2 -Wl,--pop-state "
    "-Wl,--start-group ${CELLFEED_PORTABLE}/lib/libnewer_symbols.a -l:libstdc++_pic.a -lgcc -Wl,--end-group")
endif()
