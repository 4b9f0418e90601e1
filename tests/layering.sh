#!/bin/sh
# The arrows point one way: kernels <- engine <- agents <- ui <- app. Prints each offending include and fails.
cd "$1" || exit 2
fail=0
may_not_include() {
    hits=$(grep -rnE "#include [\"<]($2)" "$1" --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh')
    if [ -n "$hits" ]; then
        echo "$hits"
        echo "$1 may not include $2"
        fail=1
    fi
}
may_not_include kernels '(engine|agents|ui|app)/|Q[A-Z]|Qt'
may_not_include engine '(agents|ui|app)/|Q[A-Z]|Qt'
may_not_include agents '(ui|app)/|QWidget|QApplication|QGuiApplication|QtWidgets|QtGui'
may_not_include ui 'app/|cuda|kernels/|engine/(backend|memory|scheduler|model/weights)'
exit $fail
