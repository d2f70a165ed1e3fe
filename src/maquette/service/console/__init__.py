"""The console: pages for the browser, served as they are from `static/`. All decisions are the HTTP door's."""
