package config

// OnPanic has f called with each panic of the YAML parser, which Parse turns into a mistake.
func OnPanic(f func(any)) { onPanic = f }
