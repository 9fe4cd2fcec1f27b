package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// webhookAddress is where examples/rules sends its CloudEvents.
const webhookAddress = "127.0.0.1:8787"

// webhooks receives the CloudEvents of the webhook example. They join the deliveries that the log
// handlers print.
type webhooks struct {
	server     *http.Server
	deliveries chan handler.Event
}

func listenForWebhooks() (*webhooks, error) {
	l, err := net.Listen("tcp", webhookAddress)
	if err != nil {
		return nil, fmt.Errorf("the webhook example delivers to %s: %w", webhookAddress, err)
	}
	w := &webhooks{deliveries: make(chan handler.Event, 64)}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = w.server.Serve(l) }() // until close
	return w, nil
}

func (w *webhooks) ServeHTTP(resp http.ResponseWriter, req *http.Request) {
	var cloudEvent struct {
		Data handler.Event `json:"data"`
	}
	body := http.MaxBytesReader(resp, req.Body, 8<<20)
	if err := json.NewDecoder(body).Decode(&cloudEvent); err != nil {
		http.Error(resp, "not a CloudEvent", http.StatusBadRequest)
		return
	}
	select {
	case w.deliveries <- cloudEvent.Data:
	case <-req.Context().Done():
	}
}

func (w *webhooks) close() { _ = w.server.Close() }
