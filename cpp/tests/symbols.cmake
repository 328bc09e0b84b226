# cmake -DNM=... -DOBJECT=... -DISA=... -P symbols.cmake
# A kernel object may define weak symbols only in its own namespace. The linker keeps one copy of a weak symbol for
# the whole module. If that were an inline function of the standard library, the copy could have instructions
# that the CPU lacks.
execute_process(COMMAND ${NM} -C --defined-only ${OBJECT} OUTPUT_VARIABLE lines RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${NM} could not read ${OBJECT}")
endif()
string(REPLACE "\n" ";" lines "${lines}")
set(seen 0)
foreach(line IN LISTS lines)
  if(line MATCHES " [VWu] ")
    math(EXPR seen "${seen} + 1")
    if(NOT line MATCHES "trellis::isa_${ISA}::")
      message(SEND_ERROR "not in trellis::isa_${ISA}: ${line}")
    endif()
  endif()
endforeach()
if(seen EQUAL 0)
  message(SEND_ERROR "no weak symbol found in ${OBJECT}: is this the right file?")
endif()
