//go:build unix && !linux

package executable

import (
	"context"
	"errors"
	"os"
)

// openDigested checks the digest and then fails: only Linux can execute exactly what was checked.
func openDigested(ctx context.Context, path, digest string) (*os.File, error) {
	file, _, err := digested(ctx, path, digest)
	if err != nil {
		return nil, err
	}
	_ = file.Close()
	return nil, errors.New("sha256 is supported on Linux only, " +
		"where informd can execute the very bytes that it has checked")
}
