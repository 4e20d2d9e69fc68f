"""The product's images, built as users build them, from bases made of Debian packages."""
