# cmake -DNM=... -DOBJECT=... -DISA=... -P symbols.cmake
# A kernel object may define weak symbols only in its own namespace. A weak symbol of another one, such as an
# inline function of the standard library, would be kept once for the whole module, perhaps compiled with
# instructions that the machine lacks.
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
