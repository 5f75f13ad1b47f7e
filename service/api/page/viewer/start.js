// Shows the OpenAPI document. A file, because the Content-Security-Policy allows no inline script.
SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null, // it would send the document to a stranger
})
