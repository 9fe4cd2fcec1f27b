// Command player is a handler for tests. It plays the part that its first argument names, well or
// badly. The text behind a mark at the end of its executable is its version and may be a vice.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// parts has the parts by name. Each gets the arguments after its name.
var parts = map[string]func(args []string) (handler.Handler, error){
	"steady": newSteady,
	"victim": newVictim,
	"family": newFamily,
}

func main() {
	h, err := cast(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		os.Exit(2)
	}
	if address := os.Getenv("PLAYER_ADDRESS"); address != "" { // it plays elsewhere
		err = serve.Remote(h, serve.RemoteOptions{
			Address: address, CertFile: os.Getenv("PLAYER_CERT"),
			KeyFile: os.Getenv("PLAYER_KEY"), ClientCAFile: os.Getenv("PLAYER_CA"),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "player:", err)
			os.Exit(1)
		}
		return
	}
	serve.Main(h)
}

func cast(args []string) (handler.Handler, error) {
	if len(args) == 0 || parts[args[0]] == nil {
		return nil, fmt.Errorf("no such part: %q", args)
	}
	return parts[args[0]](args[1:])
}

// mark begins the text appended to an executable, which the kernel ignores: a version and, perhaps,
// a vice.
const mark = "\nplayer "

// self reads the text appended to this process's executable, even if its path is gone.
func self() (version, vice string, err error) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", "", err
	}
	last := make([]byte, 64)
	if _, err := file.ReadAt(last, end-int64(len(last))); err != nil {
		return "", "", err
	}
	if i := bytes.LastIndex(last, []byte(mark)); i >= 0 {
		version, vice, _ = strings.Cut(string(last[i+len(mark):]), " ")
	}
	return version, vice, nil
}

// plain is a handler that accepts any config.
type plain struct{}

func (plain) Configure(context.Context, json.RawMessage) error { return nil }
