package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// config is what the manifest says under config.
type config struct {
	File      string   `json:"file"`
	Threshold int      `json:"threshold"`
	Window    duration `json:"window"`
	Repeat    duration `json:"repeat"`
}

const schema = `{
  "type": "object",
  "required": ["file"],
  "additionalProperties": false,
  "properties": {
    "file": {"type": "string",
      "description": "alerts are appended here, one JSON object per line"},
    "threshold": {"type": "integer", "minimum": 1, "default": 3,
      "description": "alert when so many objects are in trouble"},
    "window": {"type": "string", "default": "10m",
      "description": "how long an object counts after it was last heard of"},
    "repeat": {"type": "string", "default": "1h",
      "description": "least time between two alerts of a namespace"}
  }
}`

// parseConfig reads a config strictly and returns everything that is wrong with it, one error each.
func parseConfig(raw json.RawMessage) (config, error) {
	c := config{Threshold: 3, Window: duration(10 * time.Minute), Repeat: duration(time.Hour)}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return config{}, err
	}
	var problems []error
	if c.File == "" {
		problems = append(problems,
			errors.New("file is required: the path that alerts are appended to"))
	}
	if c.Threshold < 1 {
		problems = append(problems,
			fmt.Errorf("threshold is %d; it must be at least 1", c.Threshold))
	}
	if c.Window <= 0 {
		problems = append(problems, errors.New("window must be longer than 0"))
	}
	if c.Repeat < 0 {
		problems = append(problems, errors.New("repeat must not be negative"))
	}
	return c, errors.Join(problems...)
}

// duration is a time.Duration that is written "10m" in JSON.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("a duration is a string such as \"10m\": %w", err)
	}
	parsed, err := time.ParseDuration(text)
	*d = duration(parsed)
	return err
}
