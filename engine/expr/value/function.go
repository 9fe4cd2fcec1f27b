package value

import "slices"

// Function takes values only. Functions that evaluate an expression for each element of a list
// belong to the compiler.
type Function struct {
	Min, Max int // how many arguments; Max is Many if there is no bound
	// Call calls the function. It gives nil for a nil argument, unless the function takes nil. It
	// keeps neither the slice nor changes a value.
	Call func(m *Meter, args []any) (any, error)

	takesNil bool
}

// Many is the Max of functions that take any number of arguments.
const Many = 1 << 20

// Functions has all functions, by name. It is read-only.
var Functions = make(map[string]Function)

func init() {
	for _, table := range []map[string]Function{
		textFunctions, listFunctions, mapFunctions, numberFunctions, unitFunctions,
	} {
		for name, f := range table {
			if !f.takesNil {
				f.Call = unlessNil(f.Call)
			}
			Functions[name] = f
		}
	}
}

func unlessNil(call func(*Meter, []any) (any, error)) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		if slices.Contains(args, nil) {
			return nil, nil
		}
		return call(m, args)
	}
}

// WrongArgument is the error of a function that cannot take a value of v's kind.
func WrongArgument(function string, v any) error {
	return Errorf("%q cannot take %s", function, Some(v))
}
