package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/informd/informd/plugins/handler"
)

// gossipCommand, as the first argument, makes the test binary a handler. It rejects each event with
// an error that quotes the whole event, until the file exists that the second argument names. Then
// it writes the event there.
const gossipCommand = "gossip"

type gossip struct{ path string }

func (g gossip) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	text, err := json.Marshal(ev)
	if err != nil {
		return handler.Answer{}, err
	}
	file, err := os.OpenFile(g.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return handler.Answer{}, handler.Reject(fmt.Errorf("of no use: %s", text))
	}
	defer file.Close()
	_, err = file.Write(append(text, '\n'))
	return handler.Answer{}, err
}
