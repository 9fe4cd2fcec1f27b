// Package early makes informd run execute itself with another timer slack, before the packages that
// take time are initialized. Importing it is enough: Go initializes packages that are ready in the
// order of their paths, and this one imports little.
package early

import (
	"os"

	"github.com/informd/informd/internal/timerslack"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		timerslack.Raise()
	}
}
