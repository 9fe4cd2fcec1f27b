package main

import (
	"errors"
	"fmt"
	"time"
)

// config is what the manifest says under config.
type config struct {
	File      string        `json:"file"`
	Threshold int           `json:"threshold"`
	Window    time.Duration `json:"window"`
	Repeat    time.Duration `json:"repeat"`
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

// defaults is what counts for fields that the manifest leaves out.
var defaults = config{Threshold: 3, Window: 10 * time.Minute, Repeat: time.Hour}

// Validate returns everything that is wrong with the values, one error each. handler.DecodeConfig
// calls it.
func (c config) Validate() error {
	var problems []error
	if c.File == "" {
		problems = append(problems,
			errors.New("file: required: the path that alerts are appended to"))
	}
	if c.Threshold < 1 {
		problems = append(problems,
			fmt.Errorf("threshold: is %d; it must be at least 1", c.Threshold))
	}
	if c.Window <= 0 {
		problems = append(problems, errors.New("window: must be longer than 0"))
	}
	if c.Repeat < 0 {
		problems = append(problems, errors.New("repeat: must not be negative"))
	}
	return errors.Join(problems...)
}
