octavo_add_test(tst_theme SOURCES tst_theme.cpp LIBS octavo_ui)
octavo_add_test(tst_markdown SOURCES tst_markdown.cpp LIBS octavo_ui)

# A Workbench that follows a script: agents/workbench.h with a body of the tests' own.
add_library(octavo_scripted OBJECT
    long_answer.h
    scripted_scene.cpp
    scripted_scene.h
    scripted_workbench.cpp
    scripted_workbench.h
    ${PROJECT_SOURCE_DIR}/agents/agent.h
    ${PROJECT_SOURCE_DIR}/agents/ingest_job.h
    ${PROJECT_SOURCE_DIR}/agents/workbench.h)
target_link_libraries(octavo_scripted PUBLIC octavo_ui)

# Pictures of the window, for people: octavo_shots FOLDER
add_executable(octavo_shots shots.cpp $<TARGET_OBJECTS:octavo_scripted>)
target_link_libraries(octavo_shots PRIVATE octavo_ui Qt6::Test)
add_executable(bench_transcript ${PROJECT_SOURCE_DIR}/tests/bench/bench_transcript.cpp long_answer.h)
target_link_libraries(bench_transcript PRIVATE octavo_ui octavo_engine_fakes)

octavo_add_test(tst_transcript SOURCES tst_transcript.cpp long_answer.h LIBS octavo_ui)
foreach(name tst_accessibility tst_compare_export tst_composer tst_history tst_main_window)
    octavo_add_test(${name} SOURCES ${name}.cpp scripted_window.h $<TARGET_OBJECTS:octavo_scripted> LIBS octavo_ui)
endforeach()
octavo_add_test(tst_single_instance SOURCES tst_single_instance.cpp LIBS octavo_ui)

# The real thing over the demo model: octavo_live_shots REPOSITORY FOLDER
add_executable(octavo_live_shots live_shots.cpp)
target_link_libraries(octavo_live_shots PRIVATE octavo_ui Qt6::Test)
target_compile_definitions(octavo_live_shots PRIVATE OCTAVO_RESOURCES="${PROJECT_SOURCE_DIR}/resources")
